"""The codec of records. It lives with the terms, so that exporters may use it too."""

from torchstone.terms.codec import Malformed, check_stamp, decode, encode

__all__ = ["Malformed", "check_stamp", "decode", "encode"]
