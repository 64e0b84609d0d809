/**
 * VitePress's own theme without its web font: the site uses the fonts of the reader's machine.
 */
import theme from "vitepress/theme-without-fonts"
import "./style.css"

export default theme
