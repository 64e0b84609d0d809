/**
 * The tables that a benchmark prints, and the figures in them.
 */

/** A printed table. The cells of the first column name the rows. */
export interface PrintedTable {
  /** The line above the table, without the number of rounds. */
  readonly title: string
  /** The names of the columns after the first one. */
  readonly columns: ReadonlyArray<string>
  readonly rows: ReadonlyArray<{ readonly name: string; readonly cells: ReadonlyArray<string> }>
}

/** Columns that are computed from other columns of their table. */
const DERIVED = /^(?:range|ratio|slope)$/

const cellsOf = (line: string): ReadonlyArray<string> => line.split("|").slice(1, -1).map((cell) => cell.trim())

/** The figure at the beginning of a cell: `13,785`, `4.1 %`. */
export const figureIn = (cell: string): number => Number.parseFloat(cell.replaceAll(",", ""))

/** All tables in a benchmark's output. */
export const tablesOf = (output: string): ReadonlyArray<PrintedTable> => {
  const tables: Array<PrintedTable> = []
  let title = ""
  let rows: Array<PrintedTable["rows"][number]> | undefined
  for (const line of output.split("\n")) {
    if (!line.startsWith("|")) {
      rows = undefined
      if (line.trim() !== "") title = line.replace(/ \(\d+ rounds.*/, "")
    } else if (rows === undefined) {
      rows = []
      tables.push({ title, columns: cellsOf(line).slice(1), rows })
    } else if (!line.startsWith("| --")) {
      const [name = "", ...cells] = cellsOf(line)
      rows.push({ name, cells })
    }
  }
  return tables
}

/** The figures of all tables in a benchmark's output, by name. */
export const figuresOf = (output: string): ReadonlyMap<string, number> =>
  new Map(
    tablesOf(output).flatMap(({ columns, rows, title }) =>
      rows.flatMap(({ cells, name }) =>
        cells.flatMap((cell, index): ReadonlyArray<readonly [string, number]> => {
          const column = columns[index] ?? ""
          const figure = figureIn(cell)
          return DERIVED.test(column) || !(figure > 0) ? [] : [[`${title}: ${name}, ${column}`, figure]]
        })
      )
    )
  )
