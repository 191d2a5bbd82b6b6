// Package dashboards has the Grafana dashboards and the Prometheus rules of an installation, as files to be provisioned. The
// dashboards are made by the program in generate; metrics.txt lists the metrics that they and the rules may ask for.
package dashboards

import "embed"

//go:generate go run ./generate

// Files are grafana/*.json, prometheus/*.yml and metrics.txt.
//
//go:embed grafana/*.json prometheus/*.yml metrics.txt
var Files embed.FS
