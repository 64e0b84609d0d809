/**
 * The figures in the tables that a benchmark prints.
 */

/** Columns that are computed from other columns of their table. */
const DERIVED = /^(?:range|ratio|slope)$/

const cellsOf = (line: string): ReadonlyArray<string> => line.split("|").slice(1, -1).map((cell) => cell.trim())

/** The figures of all tables in a benchmark's output, by name. */
export const figuresOf = (output: string): ReadonlyMap<string, number> => {
  const figures = new Map<string, number>()
  let title = ""
  let header: ReadonlyArray<string> = []
  for (const line of output.split("\n")) {
    if (!line.startsWith("|")) {
      header = []
      if (line.trim() !== "") title = line.replace(/ \(\d+ rounds.*/, "")
    } else if (header.length === 0) {
      header = cellsOf(line)
    } else if (!line.startsWith("| --")) {
      const [row, ...cells] = cellsOf(line)
      for (const [index, cell] of cells.entries()) {
        const column = header[index + 1] ?? ""
        const figure = Number.parseFloat(cell)
        if (!DERIVED.test(column) && figure > 0) figures.set(`${title}: ${row}, ${column}`, figure)
      }
    }
  }
  return figures
}
