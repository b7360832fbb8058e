"""A sentence encoder of a few words, as files: its vectors are the means of its words' vectors."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

WORDS = [
    "[UNK]", "lunch", "rent", "books", "gift", "voucher", "urgent", "refund", "charge", "twice",
]  # fmt: skip
SIZE = 6


def word_vectors(seed=0):
    return np.random.default_rng(seed).normal(size=(len(WORDS), SIZE)).astype(np.float32)


def write_encoder(folder, seed=0, *, inputs=("input_ids", "attention_mask"), pooled=False):
    """Write model.onnx and tokenizer.json into `folder`, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    nodes = [helper.make_node("Gather", ["vectors", "input_ids"], ["last_hidden_state"])]
    outputs = [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, None)]
    if pooled:
        nodes.append(
            helper.make_node("ReduceMax", ["last_hidden_state", "axes"], ["sentence_embedding"],
                             keepdims=0)
        )  # fmt: skip
        outputs.append(helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, None))
    constants = {"vectors": word_vectors(seed), "axes": np.array([1])}
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "t"]) for name in inputs],
        outputs,
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    tokenizer = Tokenizer(WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
