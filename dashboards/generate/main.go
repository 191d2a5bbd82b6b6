// Generate writes the Grafana dashboards, as JSON, to the directory grafana.
//
//	go generate ./dashboards
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := write("grafana"); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// write makes all dashboards in a directory.
func write(dir string) error {
	for _, b := range []board{serviceBoard(), classBoard(), workerBoard(), meterBoard()} {
		made, err := b.build()
		if err != nil {
			return fmt.Errorf("%s: %w", b.uid, err)
		}
		var text bytes.Buffer
		out := json.NewEncoder(&text)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		if err := out.Encode(made); err != nil {
			return fmt.Errorf("%s: %w", b.uid, err)
		}
		name := filepath.Join(dir, b.uid+".json")
		if err := os.WriteFile(name, text.Bytes(), 0o644); err != nil { //nolint:gosec // everybody may read it
			return fmt.Errorf("%s: %w", b.uid, err)
		}
	}
	return nil
}
