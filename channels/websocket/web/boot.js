// The theme is known before the first paint; a module would come too late.
(() => {
  let theme = "system";
  try {
    theme = localStorage.getItem("nanobot.theme") || "system";
  } catch {
    // storage may be forbidden
  }
  if (theme !== "system") document.documentElement.dataset.theme = theme;
})();
