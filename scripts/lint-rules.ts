/**
 * The lint rules of this repository, loaded by oxlint (`jsPlugins` in .oxlintrc.json).
 *
 * - `stint/exported-doc`: every exported declaration has a doc comment.
 * - `stint/no-module-let`: no mutable state at module level.
 */
import { basename } from "node:path"

interface Node {
  readonly type: string
  readonly range: readonly [number, number]
  readonly kind?: string
  readonly declare?: boolean
  readonly id?: Name | null
  readonly declaration?: Node | null
  readonly declarations?: ReadonlyArray<Node>
}

interface Name extends Node {
  readonly name?: string
}

interface Comment {
  readonly type: string
  readonly value: string
}

interface Context {
  readonly filename: string
  readonly sourceCode: {
    readonly getCommentsBefore: (node: Node) => ReadonlyArray<Comment>
    readonly getAllComments: () => ReadonlyArray<Comment & { readonly range: readonly [number, number] }>
  }
  readonly report: (problem: { readonly node: Node; readonly message: string }) => void
}

interface Program {
  readonly body: ReadonlyArray<Node>
}

/** The names that a declaration introduces. Returns no names for destructuring patterns. */
const namesOf = (declaration: Node): ReadonlyArray<Name> =>
  (declaration.declarations ?? [declaration]).flatMap((one) => one.id ?? [])

const isDoc = (comment: Comment | undefined) => comment?.type === "Block" && comment.value.startsWith("*")

const exportedDoc = {
  create: (context: Context) => ({
    Program: (program: Program) => {
      // `export type Job = typeof Job.Type` and overloads share the comment of the first declaration of that name.
      const done = new Set<string | undefined>()
      // The comment at the top of `JobQueue.ts` documents `JobQueue` itself, and the module's only layer, constructor or command.
      const head = context.sourceCode.getAllComments()[0]
      if (isDoc(head) && head?.range[0] === 0) {
        for (const name of [basename(context.filename, ".ts"), "layer", "make", "command"]) done.add(name)
      }
      for (const node of program.body) {
        if (node.type !== "ExportNamedDeclaration" || !node.declaration) continue
        const documented = isDoc(context.sourceCode.getCommentsBefore(node).at(-1))
        for (const name of namesOf(node.declaration)) {
          if (!documented && !done.has(name.name)) {
            context.report({
              node: name,
              message: `${name.name} is exported without a doc comment. Describe what it is, its unit, its default with the ` +
                "trade-off, and its errors; or remove the export."
            })
          }
          done.add(name.name)
        }
      }
    }
  })
}

const noModuleLet = {
  create: (context: Context) => ({
    Program: (program: Program) => {
      for (const statement of program.body) {
        const node = statement.type === "ExportNamedDeclaration" ? statement.declaration : statement
        if (node?.type !== "VariableDeclaration" || node.kind === "const" || node.declare === true) continue
        for (const name of namesOf(node)) {
          context.report({
            node: name,
            message: `${name.name} is mutable state at module level, which all layers in the process would share. Create it ` +
              "inside the layer that owns it."
          })
        }
      }
    }
  })
}

export default {
  meta: { name: "stint" },
  rules: { "exported-doc": exportedDoc, "no-module-let": noModuleLet }
}
