// A name in a legend shows or hides what it stands for. Without this the report is the same, only fixed.
document.addEventListener("click", (event) => {
  const key = event.target.closest("button[data-n]");
  if (!key) return;
  const off = key.classList.toggle("off");
  key.setAttribute("aria-pressed", String(off));
  const lines = key.closest("figure").querySelectorAll(`g[data-n="${key.dataset.n}"]`);
  lines.forEach((line) => line.classList.toggle("off", off));
});
