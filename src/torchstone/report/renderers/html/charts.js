// Pictures: the value under the pointer, zoom, the kind of axes, and one panel of several.
(() => {
  const NEAR = 24; // points from a mark, within which it is meant
  const tip = element("div", { className: "tip", hidden: true, "@aria-hidden": "true" });
  document.body.append(tip);

  const distance = (mark, x, y) => {
    const box = mark.getBoundingClientRect();
    return Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));
  };

  /** Return the values of a mark with their names, which the group around it has where its neighbours have the same. */
  const told = (mark) => {
    const values = mark.dataset.v.split("; ");
    const names = mark.parentElement.dataset.k?.split("; ");
    return names === undefined ? values : values.map((value, n) => `${names[n]}: ${value}`);
  };

  const hovered = (svg) => {
    const marks = [...svg.querySelectorAll("[data-v]")];
    const show = (event) => {
      let nearest = event.target.closest?.("[data-v]") ?? null;
      if (nearest === null) {
        let least = NEAR;
        for (const mark of marks) {
          const far = distance(mark, event.clientX, event.clientY);
          if (far < least) [least, nearest] = [far, mark];
        }
      }
      tip.hidden = nearest === null;
      if (nearest === null) return;
      tip.textContent = told(nearest).join("\n");
      const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
      tip.style.left = `${Math.max(4, left)}px`;
      tip.style.top = `${Math.max(4, event.clientY - tip.offsetHeight - 14)}px`;
    };
    svg.addEventListener("pointermove", show);
    svg.addEventListener("pointerdown", show);
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
  };

  /** Let a picture be zoomed and moved; return (factor) => zoom. A factor of 0 shows all of it. */
  const zoomed = (svg) => {
    const whole = svg.getAttribute("viewBox").split(/[\s,]+/).map(Number);
    let [x, y, width, height] = whole;
    const apply = () => {
      width = Math.min(whole[2], Math.max(width, whole[2] / 12));
      height = width * whole[3] / whole[2];
      x = Math.min(Math.max(x, whole[0]), whole[0] + whole[2] - width);
      y = Math.min(Math.max(y, whole[1]), whole[1] + whole[3] - height);
      svg.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
      svg.classList.toggle("zoomed", width < whole[2]);
    };
    const zoom = (factor, right = 0.5, down = 0.5) => {
      if (factor === 0) [x, y, width, height] = whole;
      else {
        const wide = Math.min(whole[2], width / factor);
        x += (width - wide) * right;
        y += (height - wide * whole[3] / whole[2]) * down;
        width = wide;
      }
      apply();
    };
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return; // the wheel alone moves the page
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      const [right, down] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
      zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, right, down);
    }, { passive: false });
    svg.addEventListener("pointermove", (event) => {
      if (event.buttons !== 1 || !svg.classList.contains("zoomed")) return;
      const scale = width / svg.getBoundingClientRect().width;
      x -= event.movementX * scale;
      y -= event.movementY * scale;
      apply();
    });
    return zoom;
  };

  const equipped = (panel) => {
    const plots = [...panel.querySelectorAll(".plot")];
    if (!plots.length) return;
    const zooms = plots.map((plot) => zoomed(plot.firstElementChild));
    plots.forEach((plot) => hovered(plot.firstElementChild));
    const about = panel.dataset.title;
    const tools = element("div", { className: "tools", "@role": "group", "@aria-label": `${say("picture")} ${about}` });
    if (plots.length > 1) {
      const axes = plots.map((plot) => element("option", { textContent: plot.dataset.axes }));
      const choice = element("select", {}, ...axes);
      choice.addEventListener("change", () => plots.forEach((plot, n) => { plot.hidden = n !== choice.selectedIndex; }));
      tools.append(element("label", {}, say("Axes"), choice));
    }
    const every = (factor) => () => zooms.forEach((zoom) => zoom(factor));
    tools.append(
      button("+", every(1.5), { "@aria-label": `${say("zoom in")} ${about}` }),
      button("−", every(1 / 1.5), { "@aria-label": `${say("zoom out")} ${about}` }),
      button(say("All"), every(0), { "@aria-label": `${say("whole picture")} ${about}` }),
    );
    plots.at(-1).after(tools);
  };

  for (const figure of document.querySelectorAll("figure.chart")) {
    const panels = [...figure.querySelectorAll(".panel")];
    panels.forEach(equipped);
    if (panels.length < 2) continue;
    const names = [say("all"), ...panels.map((panel, n) => panel.dataset.title || say("panel {0}", n + 1))];
    const choice = element("select", {}, ...names.map((text) => element("option", { textContent: text })));
    const folded = figure.querySelector("details.more");
    choice.addEventListener("change", () => {
      const chosen = panels[choice.selectedIndex - 1];
      panels.forEach((panel) => { panel.hidden = chosen !== undefined && chosen !== panel; });
      if (folded !== null && chosen !== undefined) folded.open = folded.contains(chosen);
    });
    const tools = element("div", { className: "tools" }, element("label", {}, say("Show"), choice));
    figure.querySelector("figcaption").after(tools);
  }
})();
