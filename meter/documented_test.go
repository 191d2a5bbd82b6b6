package meter_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// Each public name of the meters says what it does, and each function, method and type of its own shows it.
func TestNames(t *testing.T) {
	t.Parallel()
	for path, dir := range map[string]string{"meter": ".", "meter/httpmeter": "httpmeter"} {
		p := read(t, path, dir)
		values := slices.Concat(p.Consts, p.Vars)
		for _, f := range p.Funcs {
			explained(t, path+"."+f.Name, f.Doc)
			shown(t, path+"."+f.Name, f.Examples)
		}
		for _, typ := range p.Types {
			name := path + "." + typ.Name
			explained(t, name, typ.Doc)
			fields(t, name, typ.Decl)
			values = append(append(values, typ.Consts...), typ.Vars...)
			examples := typ.Examples
			for _, f := range append(typ.Funcs, typ.Methods...) {
				explained(t, name+"."+f.Name, f.Doc)
				shown(t, name+"."+f.Name, f.Examples)
				examples = append(examples, f.Examples...)
			}
			if _, plain := typ.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.Ident); !plain { // a name for strings is shown by its values
				shown(t, name, examples)
			}
		}
		for _, v := range values {
			for _, spec := range v.Decl.Specs {
				s := spec.(*ast.ValueSpec) //nolint:errcheck,forcetypeassert // constants and variables are
				explained(t, path+"."+s.Names[0].Name, v.Doc+s.Doc.Text())
			}
		}
	}
}

func read(t *testing.T, path, dir string) *doc.Package {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no Go files in %s: %v", dir, err)
	}
	set := token.NewFileSet()
	files := make([]*ast.File, 0, len(names))
	for _, name := range names {
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(set, files, path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func fields(t *testing.T, name string, decl *ast.GenDecl) {
	t.Helper()
	s, ok := decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType)
	if !ok {
		return
	}
	above := ""
	for _, f := range s.Fields.List {
		if len(f.Names) > 0 && f.Names[0].IsExported() {
			explained(t, name+"."+f.Names[0].Name, f.Doc.Text()+f.Comment.Text()+above)
			above = f.Doc.Text() // two lines may share a comment
		}
	}
}

func explained(t *testing.T, name, text string) {
	t.Helper()
	if text == "" {
		t.Errorf("%s has no doc comment", name)
	}
}

// shown asks for an example that go test runs.
func shown(t *testing.T, name string, examples []*doc.Example) {
	t.Helper()
	for _, e := range examples {
		if e.Output != "" || e.EmptyOutput {
			return
		}
	}
	t.Errorf("%s has no example with an output", name)
}
