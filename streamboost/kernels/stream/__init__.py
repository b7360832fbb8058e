"""What a stream is scored and judged by: experts, and sums over judged records."""
