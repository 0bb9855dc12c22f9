package control

import (
	"bytes"
	"context"

	"github.com/prometheus/common/expfmt"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// maxMetrics bounds the text of all figures.
const maxMetrics = 256 << 10

// GetMetrics implements AgentService. Figures that fail leave the others.
func (w *wakeServer) GetMetrics(context.Context, *controlv1.GetMetricsRequest) (*controlv1.GetMetricsResponse, error) {
	if w.hub.cfg.Metrics == nil {
		return nil, status.Error(codes.FailedPrecondition, "METRICS_ABSENT: this agent has no figures")
	}
	families, err := w.hub.cfg.Metrics.Gather()
	if err != nil && len(families) == 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "METRICS_ABSENT: %v", err)
	}
	var text bytes.Buffer
	encoder := expfmt.NewEncoder(&text, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return nil, status.Errorf(codes.FailedPrecondition, "METRICS_ABSENT: %s: %v", family.GetName(), err)
		}
		if text.Len() > maxMetrics {
			return nil, status.Errorf(codes.ResourceExhausted, "METRICS_TOO_LARGE: the figures have more than %d bytes; http://127.0.0.1:7070/metrics of the CVM serves them", maxMetrics)
		}
	}
	return &controlv1.GetMetricsResponse{Text: text.Bytes()}, nil
}
