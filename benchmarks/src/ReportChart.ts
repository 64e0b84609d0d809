/**
 * Draws a table of medians and ranges as a bar chart in SVG. Each bar shows a median, and the line across its end shows the range of the rounds.
 */
import { figureIn, type PrintedTable } from "./PrintedTables.ts"

const WIDTH = 760
const NAMES = 250
const FIGURES = 90
const ROW = 34
const TOP = 52

const STYLE =
  "text{font:13px system-ui,-apple-system,\"Segoe UI\",Roboto,sans-serif;fill:#1c2330}.title{font-weight:600;font-size:15px}" +
  ".unit{fill:#4d5768}.back{fill:#fff}.bar{fill:#8ab8ea}.range{stroke:#1c2330;stroke-width:1.5}" +
  "@media (prefers-color-scheme:dark){text{fill:#e8ebf0}.unit{fill:#aab3c2}.back{fill:#16191f}.bar{fill:#2f6db3}.range{stroke:#e8ebf0}}"

const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("`", "")

/** The chart, or undefined for a table without a column of medians or without a figure above 0. */
export const chartOf = ({ columns, rows, title }: PrintedTable): string | undefined => {
  const medians = columns.findIndex((column) => column.startsWith("median"))
  const ranges = columns.indexOf("range")
  const bars = rows.map(({ cells, name }) => {
    const median = figureIn(cells[medians] ?? "")
    const [low, high] = (cells[ranges] ?? "").split(" - ").map(figureIn)
    return { name, shown: cells[medians] ?? "", median, low: low ?? median, high: high ?? median }
  }).filter(({ median }) => median > 0)
  if (medians === -1 || bars.length === 0) return undefined
  const largest = Math.max(...bars.flatMap(({ high, median }) => Number.isNaN(high) ? [median] : [high]))
  const x = (figure: number): string => (NAMES + figure / largest * (WIDTH - NAMES - FIGURES)).toFixed(1)
  const drawn = bars.map(({ high, low, median, name, shown }, index) => {
    const y = TOP + index * ROW
    const middle = y + 11
    return [
      `<text x="${NAMES - 10}" y="${middle + 4}" text-anchor="end">${escaped(name)}</text>`,
      `<rect class="bar" x="${NAMES}" y="${y}" width="${(Number(x(median)) - NAMES).toFixed(1)}" height="22" rx="2"/>`,
      high > low
        ? `<path class="range" d="M${x(low)} ${middle}H${x(high)}M${x(low)} ${middle - 5}v10M${x(high)} ${middle - 5}v10"/>`
        : "",
      `<text x="${Math.max(Number(x(median)), Number.isNaN(high) ? 0 : Number(x(high))) + 8}" y="${middle + 4}">${
        escaped(shown)
      }</text>`
    ].join("")
  })
  const height = TOP + bars.length * ROW + 8
  const described = bars.map(({ name, shown }) => `${name}: ${shown}`).join("; ")
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-labelledby="t d">
<title id="t">${escaped(title)}</title>
<desc id="d">${escaped(described)}</desc>
<style>${STYLE}</style>
<rect class="back" width="${WIDTH}" height="${height}"/>
<text class="title" x="12" y="22">${escaped(title)}</text><text class="unit" x="12" y="40">${
    escaped(columns[medians] ?? "")
  }, with the range of the rounds</text>
${drawn.join("\n")}
</svg>
`
}
