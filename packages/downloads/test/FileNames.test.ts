import { describe, expect, it } from "@effect/vitest"
import * as fc from "fast-check"
import { basename, dirname, join, win32 } from "node:path"
import * as ContentDisposition from "../src/ContentDisposition.ts"
import * as SafeName from "../src/SafeName.ts"

describe("safe names", () => {
  it.each([
    ["photo.png", "photo.png"],
    ["Größe 100%.txt", "Größe 100%.txt"],
    ["写真.jpg", "写真.jpg"],
    ["👩‍🚀.png", "👩🚀.png"],
    ["../../etc/passwd", "passwd"],
    ["..\\..\\windows\\system.ini", "system.ini"],
    ["/etc/passwd", "passwd"],
    ["C:\\boot.ini", "boot.ini"],
    ["C:boot.ini", "C_boot.ini"],
    ["file.txt:stream", "file.txt_stream"],
    ["a\0b.png", "ab.png"],
    ["a\r\nSet-Cookie: x", "aSet-Cookie_ x"],
    ["evil\u202Egnp.exe", "evilgnp.exe"],
    ["a\u200Bb\uFEFF", "ab"],
    ["a\nb/../c", "c"],
    [".bashrc", "bashrc"],
    ["...", "download"],
    ["..", "download"],
    [".", "download"],
    ["", "download"],
    ["   ", "download"],
    ["/", "download"],
    ["a/", "download"],
    ["name. . .", "name"],
    [" name ", "name"],
    ["-rf", "_rf"],
    ["--help", "_-help"],
    ["~root", "_root"],
    ["CON", "_CON"],
    ["con.txt", "_con.txt"],
    ["Aux .txt", "_Aux .txt"],
    ["LPT1.tar.gz", "_LPT1.tar.gz"],
    ["COM¹", "_COM¹"],
    ["CONSOLE", "CONSOLE"],
    ["a<b>c|d?e*f\"g", "a_b_c_d_e_f_g"],
    ["\uD800.txt", "\uFFFD.txt"],
    ["e\u0301.txt", "\u00E9.txt"]
  ])("makes %j into %j", (name, safe) => expect(SafeName.safe(name)).toBe(safe))

  it("shortens a name to 200 bytes, keeps a short extension, and splits no character", () => {
    expect(SafeName.safe(`${"a".repeat(300)}.png`)).toBe(`${"a".repeat(196)}.png`)
    expect(SafeName.safe(`a.${"b".repeat(300)}`)).toBe(`a.${"b".repeat(198)}`)
    expect(SafeName.safe(`${"😀".repeat(100)}.png`)).toBe(`${"😀".repeat(49)}.png`)
  })

  const hostile = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.string({
      unit: fc.constantFrom(
        "..",
        "/",
        "\\",
        "\0",
        ".",
        " ",
        "CON",
        "a",
        "-",
        "~",
        ":",
        "\u202E",
        "\n",
        "😀",
        "\uD800",
        "LPT1",
        "\u0301"
      ),
      maxLength: 200
    }),
    fc.string({ unit: "grapheme", minLength: 100, maxLength: 300 })
  )
  const DEVICE = /^(con|prn|aux|nul|com[0-9]|lpt[0-9])$/i

  it("is one visible path segment on every system, whatever was proposed", () => {
    fc.assert(
      fc.property(hostile, (proposed) => {
        const name = SafeName.safe(proposed)
        expect(name).not.toBe("")
        expect(Buffer.byteLength(name)).toBeLessThanOrEqual(200)
        expect(name).not.toMatch(/[/\\\p{C}<>:"|?*]/u)
        expect(name).not.toMatch(/^[.\s~-]|[.\s]$/u)
        expect(basename(name)).toBe(name)
        expect(win32.basename(name)).toBe(name)
        expect(dirname(join("/folder", name))).toBe("/folder")
        expect(name.split(".")[0]?.trim()).not.toMatch(DEVICE)
        expect(name.isWellFormed()).toBe(true)
      }),
      { numRuns: 2000 }
    )
  })

  it("does not change a safe name", () => {
    fc.assert(fc.property(hostile, (name) => SafeName.safe(SafeName.safe(name)) === SafeName.safe(name)), { numRuns: 2000 })
  })

  it.each([
    ["https://h/a/b.png", "b.png"],
    ["https://h/a/b%20c.png?x=/y.gif#/z", "b c.png"],
    ["https://h/%2e%2e%2fetc%2fpasswd", "../etc/passwd"],
    ["https://h/%ff.png", "%ff.png"],
    ["https://h/a/", undefined],
    ["https://h", undefined]
  ])("takes the name out of %s", (url, name) => expect(SafeName.fromUrl(new URL(url))).toBe(name))

  it("appends the extension of the content type to a name without one", () => {
    expect(SafeName.withEnding("200", "image/jpeg")).toBe("200.jpg")
    expect(SafeName.withEnding("200.png", "image/jpeg")).toBe("200.png")
    expect(SafeName.withEnding("README", "text/plain")).toBe("README")
    expect(SafeName.withEnding("x", "constructor")).toBe("x")
    expect(SafeName.withEnding("x", undefined)).toBe("x")
  })
})

describe("Content-Disposition", () => {
  it.each([
    ["attachment; filename=photo.png", "photo.png"],
    ["attachment; filename=\"my photo.png\"", "my photo.png"],
    ["inline;filename=\"a;b=c.txt\"; x=y", "a;b=c.txt"],
    ["attachment; filename=\"say \\\"hi\\\".txt\"", "say \"hi\".txt"],
    ["attachment; filename=\"EURO rates\"; filename*=utf-8''%e2%82%ac%20rates", "€ rates"],
    ["attachment; filename*=UTF-8'en'%e2%82%ac.txt; filename=x", "€.txt"],
    ["attachment; FILENAME*=iso-8859-1'en'%A3%20rates", "£ rates"],
    ["attachment; filename*=UTF-8''%ff; filename=fallback.txt", "fallback.txt"],
    ["attachment; filename*=UTF-8''%zz; filename=fallback.txt", "fallback.txt"],
    ["attachment; filename*=koi8-r''abc; filename=fallback.txt", "fallback.txt"],
    ["attachment; filename*=broken; filename=fallback.txt", "fallback.txt"],
    ["attachment; filename=a.txt; filename=b.txt", "a.txt"],
    [`attachment; filename="${Buffer.from("Größe.txt").toString("latin1")}"`, "Größe.txt"],
    ["attachment; filename=\"Gr\u00F6\u00DFe.txt\"", "Größe.txt"],
    ["attachment; filename*=UTF-8''..%2F..%2Fetc%2Fpasswd", "../../etc/passwd"],
    ["attachment; filename=\"unclosed", "\"unclosed"],
    ["attachment; filename=", ""],
    ["attachment; name=x", undefined],
    ["attachment", undefined],
    ["", undefined],
    [undefined, undefined]
  ])("reads the name of %j as %j", (header, name) => expect(ContentDisposition.fileName(header)).toBe(name))

  it("reads any header of the largest size without failing", () => {
    const unit = fc.constantFrom(";", "=", "\"", "\\", "filename", "*", "UTF-8''", "%", " ", "a", "\u00FF")
    fc.assert(fc.property(fc.string({ unit, maxLength: 500 }), (header) => {
      const name = ContentDisposition.fileName(`attachment; ${header}`)
      return name === undefined || SafeName.safe(name) !== ""
    }))
    expect(ContentDisposition.fileName(`attachment; filename="${"\\".repeat(16_384)}`)).toBeDefined()
    expect(ContentDisposition.fileName(";".repeat(16_384))).toBeUndefined()
    expect(ContentDisposition.fileName(`;${" ".repeat(32_000)}`)).toBeUndefined()
  })
})
