/**
 * A button that saves a text as a file.
 */

const save = (name: string, type: string, text: string) => {
  const address = URL.createObjectURL(new Blob([text], { type }))
  const link = document.createElement("a")
  link.href = address
  link.download = name
  link.click()
  URL.revokeObjectURL(address)
}

/** The button. `text` is called when the button is clicked. */
export const Download = ({ children, name, text, type }: {
  readonly children: string
  readonly name: string
  readonly type: string
  readonly text: () => string
}) => <button type="button" className="button" onClick={() => save(name, type, text())}>{children}</button>
