package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/spout-queue/spout/cmd/internal/exit"
)

// Printer writes answers to standard output: tables, or one compact JSON object per line.
type Printer struct {
	w    io.Writer
	json bool
}

// NewPrinter returns a printer of tables or, asJSON, of objects.
func NewPrinter(w io.Writer, asJSON bool) *Printer { return &Printer{w, asJSON} }

// JSON tells whether a program reads the answers.
func (p *Printer) JSON() bool { return p.json }

// Column is one column of a table: its name and what a row shows in it.
type Column[T any] struct {
	Name string
	Cell func(T) any
}

// List prints things as rows of a table. Without any it prints nothing.
func List[T any](p *Printer, things []T, columns ...Column[T]) error {
	return Annotated(p, things, func(T) []string { return nil }, columns...)
}

// Annotated is List with notes below the row of a thing, for people: a program reads the thing itself.
func Annotated[T any](p *Printer, things []T, notes func(T) []string, columns ...Column[T]) error {
	if p.json {
		return objects(p, things)
	}
	if len(things) == 0 {
		return nil
	}
	t := plainTable()
	header := make(table.Row, len(columns))
	for i, c := range columns {
		header[i] = c.Name
	}
	t.AppendHeader(header)
	for _, thing := range things {
		row := make(table.Row, len(columns))
		for i, c := range columns {
			row[i] = printable(c.Cell(thing))
		}
		t.AppendRow(row)
	}
	lines := strings.SplitAfter(string(rendered(t)), "\n") // the header is the first
	var b bytes.Buffer
	b.WriteString(lines[0])
	for i, thing := range things {
		b.WriteString(lines[i+1])
		for _, note := range notes(thing) {
			fmt.Fprintf(&b, "  %s\n", printable(note))
		}
	}
	return p.write(b.Bytes())
}

// One prints a thing, one column per line. Columns with nothing to show are left out.
func One[T any](p *Printer, thing T, columns ...Column[T]) error {
	if p.json {
		return objects(p, []T{thing})
	}
	t := plainTable()
	for _, c := range columns {
		if cell := printable(c.Cell(thing)); cell != "" {
			t.AppendRow(table.Row{c.Name, cell})
		}
	}
	return p.write(rendered(t))
}

// objects prints things as JSON, one per line.
func objects[T any](p *Printer, things []T) error {
	var b bytes.Buffer
	for _, thing := range things {
		object, err := json.Marshal(thing)
		if err != nil {
			return fmt.Errorf("write the answer: %w", err)
		}
		b.Write(object)
		b.WriteByte('\n')
	}
	return p.write(b.Bytes())
}

// Object prints a thing as JSON and is silent when people read.
func (p *Printer) Object(thing any) error {
	if !p.json {
		return nil
	}
	return objects(p, []any{thing})
}

// Linef prints a line for people and is silent when a program reads.
func (p *Printer) Linef(format string, args ...any) error {
	if p.json {
		return nil
	}
	return p.write(fmt.Appendf(nil, format+"\n", args...))
}

func (p *Printer) write(b []byte) error {
	if _, err := p.w.Write(b); err != nil {
		return &exit.Error{Status: exit.IO, Err: fmt.Errorf("write the answer: %w", err)}
	}
	return nil
}

// plainTable has no lines, so that it can be cut by other programs and copied.
func plainTable() table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	return t
}

func rendered(t table.Writer) []byte { return []byte(t.Render() + "\n") }

// printable is a cell in one line, without what a terminal would obey: errors of jobs hold what strangers sent.
func printable(cell any) string {
	var b strings.Builder
	for _, r := range fmt.Sprint(cell) {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}
