package main

// decided counts the decisions of one kind.
func decided(decision string) query {
	return query{`sum by (meter) (rate(spout_meter_decisions_total{job=~"$job", decision="` + decision + `"}[$__rate_interval]))`, "{{meter}}"}
}

func meterBoard() board {
	per := func(metric string) query { return sum(metric, "meter") }
	return board{
		uid: "spout-meter", title: "Spout: meter",
		about: "The meters of programs that export them (meter.NewCollector): what passes, what is refused and why.",
		rows: []row{{"Decisions", []panel{
			{
				title: "Conformed", unit: perSec, warn: 1e5, bad: 1e6, about: "Decisions that let pass, by meter.",
				queries: []query{decided("conform")},
			},
			{
				title: "Refused", unit: perSec, warn: 10, bad: 1000, about: "Decisions that refused, those in shadow mode too.",
				queries: []query{decided("refuse")},
			},
			{
				title: "Share refused", unit: share, warn: .1, bad: .5, about: "Refused of all decisions.",
				queries: []query{{`sum by (meter) (rate(spout_meter_decisions_total{job=~"$job", decision="refuse"}[$__rate_interval]))
/ sum by (meter) (rate(spout_meter_decisions_total{job=~"$job"}[$__rate_interval]))`, "{{meter}}"}},
			},
			{
				title: "Refused without the store, or in vain", unit: perSec, warn: 100, bad: 1e4,
				about: "Refusals from the denial cache, those in shadow mode that passed, and costs above the limit, which never can.",
				queries: []query{
					{`sum by (meter) (rate(spout_meter_cached_total{job=~"$job"}[$__rate_interval]))`, "{{meter}} cached"},
					{`sum by (meter) (rate(spout_meter_shadow_total{job=~"$job"}[$__rate_interval]))`, "{{meter}} shadow"},
					{`sum by (meter) (rate(spout_meter_never_total{job=~"$job"}[$__rate_interval]))`, "{{meter}} never"},
				},
			},
			{
				title: "Leased", unit: perSec, warn: 1e5, bad: 1e6, about: "What leases let pass without asking the store.",
				queries: []query{per("spout_meter_leased_total")},
			},
			{
				title: "Store away", unit: perSec, warn: .1, bad: 10, about: "Calls that the store could not answer, by what was done with them.",
				queries: []query{sum("spout_meter_away_total", "policy")},
			},
		}}},
	}
}
