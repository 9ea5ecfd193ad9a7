/** The question for the token, when the server wants one. */
import { html, useEffect, useRef } from "./h.js";
import { signIn, token } from "./api.js";
import { reconnect } from "./ws.js";

export default function SignIn() {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => box.current?.showModal(), []);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const value = input.current?.value.trim() ?? "";
    if (!value) return;
    signIn(value);
    reconnect();
  };
  return html`<dialog ref=${box} aria-labelledby="sign-in" onCancel=${(/** @type {Event} */ event) => event.preventDefault()}>
    <form onSubmit=${submit}>
      <h2 id="sign-in">Sign in</h2>
      <p>${token() ? "This token is not accepted." : "This gateway asks for a token."} It is kept until you close this tab.</p>
      <label>Token <input ref=${input} type="password" autocomplete="current-password" required /></label>
      <button type="submit" class="primary">Sign in</button>
    </form>
  </dialog>`;
}
