package envoy

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/proto"
)

const (
	// gatherWithin bounds a collection of all metrics, and figuresMost the metrics of one Envoy:
	// 300 clusters have about 200 KiB.
	gatherWithin = time.Second
	figuresMost  = 512 << 10
)

// Gather implements prometheus.Gatherer: it returns the metrics of all Envoys, each with the label
// proxy, and whether each Envoy runs. Gather never fails: it omits the own metrics of an Envoy that
// does not answer, or whose answer is too large.
func (s *Supervisor) Gather() ([]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(context.Background(), gatherWithin)
	defer cancel()
	var (
		all  = s.all()
		got  = make([]map[string]*dto.MetricFamily, len(all))
		wg   sync.WaitGroup
		live = family("cadre_agent_envoy_live", "1 while the proxy's Envoy has its listeners.", dto.MetricType_GAUGE)
		runs = family("cadre_agent_envoy_restarts_total", "How often the proxy's Envoy was started again.", dto.MetricType_COUNTER)
		out  = map[string]*dto.MetricFamily{live.GetName(): live, runs.GetName(): runs}
	)
	for i, k := range all {
		status := k.get()
		up := 0.0
		if status.State == StateLive {
			up = 1
		}
		live.Metric = append(live.Metric, &dto.Metric{Label: labels(status.ID), Gauge: &dto.Gauge{Value: proto.Float64(up)}})
		runs.Metric = append(runs.Metric, &dto.Metric{Label: labels(status.ID), Counter: &dto.Counter{Value: proto.Float64(float64(status.Restarts))}})
		if status.PID == 0 {
			continue
		}
		wg.Go(func() {
			text, err := admin(k.at.admin()).ask(ctx, http.MethodGet, "/stats/prometheus")
			if err == nil {
				got[i], err = parseFigures(text, status.ID)
			}
			if err != nil {
				k.log.Debug("an envoy returns no metrics", "error", err)
			}
		})
	}
	wg.Wait()
	for _, families := range got {
		merge(out, families)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return slices.SortedFunc(maps.Values(out), func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) }), nil
}

func family(name, help string, kind dto.MetricType) *dto.MetricFamily {
	return &dto.MetricFamily{Name: &name, Help: &help, Type: &kind}
}

func labels(proxy string) []*dto.LabelPair {
	return []*dto.LabelPair{{Name: proto.String("proxy"), Value: &proxy}}
}

// parseFigures parses an Envoy's metrics and labels them.
func parseFigures(text []byte, proxy string) (map[string]*dto.MetricFamily, error) {
	if len(text) > figuresMost {
		return nil, fmt.Errorf("its figures have %d bytes, the most is %d", len(text), figuresMost)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	for name, f := range families {
		if !strings.HasPrefix(name, "envoy_") {
			delete(families, name)
			continue
		}
		f.Help = proto.String("Envoy's figure of that name.")
		for _, m := range f.Metric {
			m.Label = append(m.Label, labels(proxy)...)
			slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
		}
	}
	return families, nil
}

// merge adds more to all. A family that two Envoys have with different types is the first one's.
func merge(all, more map[string]*dto.MetricFamily) {
	for name, f := range more {
		had := all[name]
		switch {
		case had == nil:
			all[name] = f
		case had.GetType() == f.GetType():
			had.Metric = append(had.Metric, f.Metric...)
		}
	}
}
