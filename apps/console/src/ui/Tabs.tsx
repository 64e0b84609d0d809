/**
 * Tabs, with the usual keyboard controls.
 */
import { Tabs as Base } from "@base-ui/react/tabs"
import { type ReactNode, useState } from "react"

/** A tab. */
export interface Tab {
  readonly name: string
  /** Shown after the name. */
  readonly count?: number | undefined
  readonly content: ReactNode
}

/** Tabs. The tab named `initial` is open at first, or else the first tab. Later changes to `initial` do not switch the tab. */
export const Tabs = ({ initial, label, tabs }: {
  readonly label: string
  readonly tabs: ReadonlyArray<Tab>
  readonly initial?: string | undefined
}) => {
  const [open, setOpen] = useState(initial ?? tabs[0]?.name)
  return (
    <Base.Root value={open} onValueChange={setOpen}>
      <Base.List className="tabs" aria-label={label}>
        {tabs.map(({ count, name }) => (
          <Base.Tab key={name} value={name} className="tab">
            {name}
            {count === undefined ? null : <span className="tab-count">{count}</span>}
          </Base.Tab>
        ))}
      </Base.List>
      {tabs.map(({ content, name }) => <Base.Panel key={name} value={name} className="panel">{content}</Base.Panel>)}
    </Base.Root>
  )
}
