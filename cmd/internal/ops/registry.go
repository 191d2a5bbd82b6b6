package ops

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// newRegistry has what every program shows: the process, Go's runtime and what was built.
func newRegistry(program string) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	version, revision, goVersion := build()
	promauto.With(reg).NewGaugeVec(prometheus.GaugeOpts{
		Name: "spout_build_info", Help: "1; the labels say what runs.",
	}, []string{"program", "version", "revision", "goversion"}).WithLabelValues(program, version, revision, goVersion).Set(1)
	return reg
}

// build is what the binary recorded of itself.
func build() (version, revision, goVersion string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown", "unknown", "unknown"
	}
	revision = "unknown"
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return info.Main.Version, revision, info.GoVersion
}
