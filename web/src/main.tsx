import { render } from "preact";
import { App } from "./app";
import "./theme";
import "./style/parts.css";
import "./style/views.css";

const root = document.getElementById("app")!;
root.textContent = "";
render(<App />, root);
