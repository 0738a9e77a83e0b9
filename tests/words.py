"""The words that left what people read, each with the field's word (docs/style.md)."""

import re

LEFT = {
    r"an? house\b|\bof the house\b": "rule, convention",
    r"duels?": "final round",
    r"quests?": "specification of a tune",
    r"contests?|fought": "live comparison, experiment",
    r"can feed|can eat": "delivers, throughput",
    r"no room for": "does not fit",
    r"beliefs?|believe[ds]?|to believe": "estimate; valid",
    r"eats?|eaten": "throughput, input",
    r"luck|lucky|luckiest": "chance, random",
    r"neighbours?": "other processes",
    r"told apart|be told from": "significantly different",
    r"times in 5|cases of 5": "80 % power",
    r"(would|to) settle it": "needed (80 % power)",
    r"ends? well|ended well": "succeeds, successful",
    r"takes? turns|taking turns": "is interleaved",
    r"most time": "maximum time",
    r"anew": "again, re-",
    r"slipped": "wrong unit",
    r"somebody|nobody": "another user, no one",
    r"as the device likes": "tuned for the device",
    r"what no axis says": "default of an unset option",
    r"to the bit": "exactly, identical",
    r"held down|holds? .* clock down": "throttled",
    r"goes? on with|go on with": "continues",
    r"learnt": "learned",
    r"lies here|lies there": "is in, exists",
    r"mend(s|ed)?": "fix, repair",
    r"woken|wakes?": "initialised",
    r"foretold|foretells?": "predicted",
}
_FINDERS = {re.compile(rf"\b(?:{word})\b", re.IGNORECASE): term for word, term in LEFT.items()}
_TYPED = re.compile(r"--[\w-]+|`[^`]*`")  # names of options and commands stay as they are typed


def old_words(text: str) -> list[str]:
    """Return each word of the text that left, with what to write instead; empty where there is none."""
    shown = " ".join(_TYPED.sub("", text).split())  # help is wrapped
    return [f"{found[0]!r}: write {term!r}" for finder, term in _FINDERS.items() if (found := finder.search(shown))]
