package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var staticFiles embed.FS

// static serves the files of static/, compressed once and under names that change with their content, so that a browser may
// keep them for ever.
type static struct {
	base  string
	names map[string]string // of a file: its path under static/
	files map[string]staticFile
}

type staticFile struct {
	kind       string
	body, gzip []byte
}

func newStatic(base string) *static {
	s := &static{base: base + "/static/", names: map[string]string{}, files: map[string]staticFile{}}
	err := fs.WalkDir(staticFiles, "static", func(name string, entry fs.DirEntry, err error) error {
		kind := mime.TypeByExtension(path.Ext(name))
		if err != nil || entry.IsDir() || kind == "" {
			return err
		}
		body, err := staticFiles.ReadFile(name)
		sum := sha256.Sum256(body)
		name = strings.TrimPrefix(name, "static/")
		s.names[name] = hex.EncodeToString(sum[:6]) + "/" + name
		s.files[s.names[name]] = staticFile{kind, body, gzipped(body, gzip.BestCompression)}
		return err
	})
	if err != nil {
		panic(err) // they are embedded
	}
	return s
}

func gzipped(body []byte, level int) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, level) // the level exists
	_, _ = z.Write(body)                   // a buffer takes all
	_ = z.Close()
	return b.Bytes()
}

// url of a file in static/.
func (s *static) url(name string) string { return s.base + s.names[name] }

// ServeHTTP implements [http.Handler].
func (s *static) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := s.files[strings.TrimPrefix(r.URL.Path, s.base)]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := f.body
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.gzip
	}
	_, _ = w.Write(body) // who went away needs no answer
}
