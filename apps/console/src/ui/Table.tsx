/**
 * Parts of tables that several pages share.
 */
import type { ReactNode } from "react"

/** The names of the columns, and a column of buttons. `number`: the name of a first column with numbers. */
export const ActionsHead = ({ names, number }: { readonly names: ReadonlyArray<string>; readonly number?: string }) => (
  <thead>
    <tr>
      {number === undefined ? null : <th scope="col" className="number">{number}</th>}
      {names.map((name) => <th key={name} scope="col">{name}</th>)}
      <th>
        <span className="sr">Actions</span>
      </th>
    </tr>
  </thead>
)

/** Settings and their values. */
export const SettingsTable = ({ rows }: { readonly rows: ReadonlyArray<readonly [name: string, value: ReactNode]> }) => (
  <table className="settings">
    <tbody>
      {rows.map(([name, value]) => (
        <tr key={name}>
          <th scope="row">{name}</th>
          <td>{value}</td>
        </tr>
      ))}
    </tbody>
  </table>
)
