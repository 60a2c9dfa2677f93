package prometheus_test

import (
	"testing"

	"github.com/redquorum/redquorum/bench/load"
	redprometheus "github.com/redquorum/redquorum/contrib/prometheus"
	"github.com/redquorum/redquorum/redlock"
)

// BenchmarkHistograms shows what histograms add to a lock and its unlock ([load.Costs]),
// without labels and with one. A collector of the Locker's figures adds nothing: it runs when it is
// asked.
func BenchmarkHistograms(b *testing.B) {
	histograms := func(opts ...redprometheus.HistogramOption) []redlock.Option {
		return []redlock.Option{redlock.WithHooks(redprometheus.NewHistograms(opts...).Hooks(redlock.Hooks{}))}
	}
	load.Costs(b,
		load.Variant{Name: "unlabelled", Options: histograms()},
		load.Variant{Name: "named", Options: histograms(redprometheus.WithNames(20, nil))})
}
