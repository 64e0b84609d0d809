/**
 * The lines of a log in a box. While the last line is visible, new lines scroll into view.
 */
import { type ReactNode, useEffect, useRef } from "react"

/** `count`: the number of lines, whose change scrolls. */
export const LogBox = ({ children, count, label }: {
  readonly count: number
  readonly label: string
  readonly children: ReactNode
}) => {
  const box = useRef<HTMLDivElement>(null)
  const isAtEnd = useRef(true)
  useEffect(() => {
    const element = box.current
    if (element !== null && isAtEnd.current) element.scrollTop = element.scrollHeight
  }, [count])
  return (
    <div
      ref={box}
      className="log"
      tabIndex={0}
      role="log"
      aria-label={label}
      onScroll={({ currentTarget: { clientHeight, scrollHeight, scrollTop } }) => {
        isAtEnd.current = scrollHeight - scrollTop - clientHeight < 20
      }}
    >
      {children}
    </div>
  )
}
