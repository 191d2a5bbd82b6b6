package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// board is one dashboard: rows of panels, and the variables to choose by beside the source and the job.
type board struct {
	uid, title, about string
	byClass           bool
	rows              []row
}

type row struct {
	title  string
	panels []panel
}

// panel shows some queries in one unit. What is above warn is yellow, above bad red; with less, what is below.
type panel struct {
	title, unit, about string
	warn, bad          float64
	less               bool
	single             bool // the value of now, and not a line
	queries            []query
}

type query struct{ expr, legend string }

// Units, as Grafana calls them.
const (
	none    = "short"
	seconds = "s"
	share   = "percentunit"
	perSec  = "cps"
	size    = "bytes"
)

const (
	width  = 24 // of a dashboard
	across = 3  // panels in a line
	height = 8
	source = "${source}"
)

// build makes the dashboard in the schema that every Grafana since version 8 imports; its successor needs Grafana 12.
func (b board) build() (dashboard.Dashboard, error) { //nolint:staticcheck // see above
	d := dashboard.NewDashboardBuilder(b.title). //nolint:staticcheck // see above
							Uid(b.uid).Description(b.about).Tags([]string{"spout"}).Refresh("30s").Time("now-3h", "now").
							Timezone("browser").Tooltip(dashboard.DashboardCursorSyncCrosshair).Readonly().
							WithVariable(dashboard.NewDatasourceVariableBuilder("source").Label("Source").Type("prometheus")).
							WithVariable(variable("job", "Job", "label_values(spout_build_info, job)"))
	if b.byClass {
		d.WithVariable(variable("class", "Class", `label_values(spout_class_capacity{job=~"$job"}, class)`))
	}
	id := uint32(0)
	for _, r := range b.rows {
		id++
		d.WithRow(dashboard.NewRowBuilder(r.title).Id(id))
		for _, p := range r.panels {
			id++
			d.WithPanel(p.build(id))
		}
	}
	return d.Build()
}

func variable(name, label, asks string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(prom()).
		Query(dashboard.StringOrMap{String: &asks}).Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).Multi(true).IncludeAll(true).AllValue(".*")
}

func prom() common.DataSourceRef {
	kind, uid := "prometheus", source
	return common.DataSourceRef{Type: &kind, Uid: &uid}
}

func (p panel) build(id uint32) cog.Builder[dashboard.Panel] {
	if p.single {
		s := stat.NewPanelBuilder().Id(id).Title(p.title).Description(p.about).Unit(p.unit).Datasource(prom()).
			Thresholds(p.thresholds()).Span(width / across / 2).Height(height / 2).ColorMode(common.BigValueColorModeValue)
		for i, q := range p.queries {
			s.WithTarget(q.build(i))
		}
		return s
	}
	t := timeseries.NewPanelBuilder().Id(id).Title(p.title).Description(p.about).Unit(p.unit).Datasource(prom()).
		Thresholds(p.thresholds()).Span(width / across).Height(height).FillOpacity(8).Min(0).
		ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed)).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).
			Placement(common.LegendPlacementBottom).ShowLegend(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	for i, q := range p.queries {
		t.WithTarget(q.build(i))
	}
	return t
}

func (q query) build(i int) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().RefId("ABCDEFGH"[i : i+1]).Expr(q.expr).LegendFormat(q.legend).Exemplar(true)
}

func (p panel) thresholds() *dashboard.ThresholdsConfigBuilder {
	base, worst := "green", "red"
	if p.less {
		base, worst = "red", "green"
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps([]dashboard.Threshold{
		{Color: base}, {Value: &p.warn, Color: "yellow"}, {Value: &p.bad, Color: worst},
	})
}
