package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/dashboards"
)

func exportCommand(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "export-dashboards", Usage: "write the Grafana dashboards and the Prometheus rules to a directory",
		Description: `Writes grafana/*.json, to be imported or provisioned, prometheus/spout.yml for rule_files, spout_test.yml with its tests for
promtool, and metrics.txt, the list of all metrics. It asks Redis nothing. Files that are there are replaced.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Value: "spout-dashboards", Usage: "`DIRECTORY` to write to; made if need be"},
		},
		Run: runExport,
	})
}

func runExport(_ context.Context, s *command.Session) error {
	dir := s.Flags.String("dir")
	return fs.WalkDir(dashboards.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := dashboards.Files.ReadFile(name)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := save(path, text); err != nil {
			return &exit.Error{Status: exit.IO, Err: fmt.Errorf("write the dashboards: %w", err)}
		}
		if s.JSON() {
			return s.Object(map[string]string{"file": path})
		}
		return s.Linef("%s", path)
	})
}

// save writes a file that everybody may read: Grafana and Prometheus run as users of their own.
func save(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // see above
		return err
	}
	return os.WriteFile(path, text, 0o644) //nolint:gosec // see above
}
