// Sets the chosen theme before anything is painted. "" follows the system.
const theme = localStorage.getItem("tieline-theme") || "";
if (theme) document.documentElement.dataset.theme = theme;
