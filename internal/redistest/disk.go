package redistest

import (
	"os"
	"path/filepath"
)

// Disk is how much of its append-only files a server had written at some
// moment: what a machine that loses power keeps if its last fsync was then.
// kill -9 alone loses nothing that was written, whatever appendfsync says.
type Disk struct{ sizes map[string]int64 }

// Disk measures the files of a server with "--appendonly", "yes".
func (s *Server) Disk() Disk {
	s.tb.Helper()
	files, err := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.aof"))
	check(s.tb, err, "list append-only files")
	if len(files) == 0 {
		s.tb.Fatal("the server has no append-only file")
	}
	d := Disk{sizes: map[string]int64{}}
	for _, file := range files {
		info, err := os.Stat(file)
		check(s.tb, err, "measure append-only file")
		d.sizes[file] = info.Size()
	}
	return d
}

// LosePower kills the server and cuts its files back to what was on d, so that
// [Server.Restart] finds what a machine would find. The server must not have
// rewritten its files in between, which it does from 64 MB on.
func (s *Server) LosePower(d Disk) {
	s.tb.Helper()
	s.Kill()
	for file, size := range d.sizes {
		check(s.tb, os.Truncate(file, size), "cut append-only file")
	}
}
