// Forest plots: another smallest change that matters moves the band, and each verdict is given again.
(() => {
  const CLASSES = { better: "good", worse: "bad", same: "even" };
  const SAID = new Map([
    ["better", say("better")], ["worse", say("worse")], ["same", say("same")], ["unclear", say("unclear")],
    ["not comparable", say("not comparable")],
  ]);
  const MANY = 12; // rows, from more than which on those that are the same are folded
  const MOST = 25; // percent, where the slider ends

  /** The rule of torchstone (judge in core/schema/comparison.py): equivalence by the interval, else where it lies. */
  const judge = (low, high, margin, higherIsBetter) => {
    if (1 / (1 + margin) <= low && high <= 1 + margin && margin > 0) return "same";
    if (low > 1 || high < 1) return (low > 1) === higherIsBetter ? "better" : "worse";
    return "unclear";
  };

  /** Return margin => verdict of a row. What torchstone left undecided for another reason stays so. */
  const judged = (row, margin) => {
    const said = row.dataset.verdict;
    const [low, high] = [row.dataset.low, row.dataset.high].map(Number);
    if (row.dataset.low === "" || row.dataset.high === "") return () => said;
    const rule = (at) => judge(low, high, at, row.dataset.higher === "1");
    const ours = rule(margin);
    if (ours === said) return rule;
    if (said !== "unclear" || ours === "same") return () => said;
    return (at) => (rule(at) === "same" ? "same" : "unclear");
  };

  const alive = (figure) => {
    const start = Number(figure.dataset.margin);
    const [first, last] = [figure.dataset.first, figure.dataset.last].map(Number);
    const rows = [...figure.querySelectorAll("tbody tr")];
    const rules = rows.map((row) => judged(row, start));
    const band = figure.querySelector(".band"); // which every row shows
    const words = [...figure.querySelectorAll("[data-word]")];
    const said = figure.querySelector("figcaption output");
    const moved = element("p", { className: "moved", hidden: true, "@role": "status" });
    const place = (ratio) => Math.min(100, Math.max(0, 100 * (Math.log(ratio) - first) / (last - first)));

    const show = (margin) => {
      const [from, to] = [place(1 / (1 + margin)), place(1 + margin)];
      const counts = {};
      rows.forEach((row, n) => {
        const word = rules[n](margin);
        const cell = row.querySelector(".v");
        cell.textContent = SAID.get(word) ?? word;
        cell.className = `v ${CLASSES[word] ?? "open"}`;
        row.dataset.now = word;
        counts[word] = (counts[word] ?? 0) + 1;
      });
      band.setAttribute("x", `${from}%`);
      band.setAttribute("width", `${to - from}%`);
      for (const one of words) one.textContent = `${counts[one.dataset.word] ?? 0} ${SAID.get(one.dataset.word) ?? one.dataset.word}`;
      const percent = (value) => `${Number((100 * value).toPrecision(4))} %`;
      said.textContent = percent(margin);
      moved.hidden = margin === start;
      moved.textContent = moved.hidden ? "" : say("Verdicts here are for changes of {0}; everywhere else in this report for {1}, as it was computed.",
        percent(margin), percent(start)) + ` ${figure.querySelector(".counts").textContent}.`;
    };

    const percentOf = (margin) => String(Number((100 * margin).toPrecision(6)));
    const number = element("input", { type: "number", min: 0, max: 1000, step: "any", value: percentOf(start) });
    const slider = element("input", { type: "range", min: 0, max: MOST, step: 0.1, value: percentOf(start) });
    slider.setAttribute("aria-label", say("smallest change that matters, percent"));
    const move = (from, to) => () => {
      if (from.value === "" || !(Number(from.value) >= 0)) return;
      to.value = from.value;
      show(Number(from.value) / 100);
    };
    number.addEventListener("input", move(number, slider));
    slider.addEventListener("input", move(slider, number));
    const back = button(say("As computed"), () => {
      number.value = slider.value = percentOf(start);
      show(start);
    });
    const tools = element("div", { className: "tools" },
      element("label", {}, say("Smallest change that matters, %"), number), slider, back);

    const same = rows.filter((_, n) => rules[n](start) === "same").length;
    if (rows.length > MANY && same > 0) {
      const box = element("input", { type: "checkbox", checked: true });
      const fold = () => figure.querySelector("tbody").classList.toggle("fold", box.checked);
      box.addEventListener("change", fold);
      tools.append(element("label", {}, box, say("Hide what is the same")));
      fold();
    }
    figure.querySelector(".counts").after(tools, moved);
    show(start);
  };

  document.querySelectorAll("figure.forest").forEach(alive);
})();
