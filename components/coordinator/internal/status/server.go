package status

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Health is the answer of /healthz.
type Health struct {
	Slot string `json:"slot"`
	// Records: the records can be read. It turns false some seconds after the store began to fail,
	// and true with the first answer.
	Records bool `json:"records"`
	// Leader and Term of the last read.
	Leader string `json:"leader,omitempty"`
	Term   uint64 `json:"term,omitempty"`
	// Halted is why no coordinator can lead until an operator acts, and the action.
	Halted string `json:"halted,omitempty"`
}

// Instance is the answer of /v1/instance: a coordinator in the form in which an agent describes its
// Boot (docs/reference/openapi-agent.yaml). Its member is the Consul server of the CVM.
type Instance struct {
	Cluster    string `json:"cluster"`
	Group      string `json:"group"`
	Slot       string `json:"slot"`
	VIP        string `json:"vip"`
	BootID     string `json:"boot_id"`
	AppID      string `json:"app_id"`
	InstanceID string `json:"instance_id"`
	// Members are the Slots of all coordinators.
	Members []string `json:"members"`
	Term    uint64   `json:"term"`
	Member  Member   `json:"member"`
}

// Member is the Consul server of this CVM, by its own answer.
type Member struct {
	// Known: the server names a Raft leader. All other fields are zero otherwise, except Message.
	Known bool `json:"known"`
	// Role is "leader" or "follower", in Raft. The holder of the Lease may be another coordinator.
	Role  string `json:"role"`
	Ready bool   `json:"ready"`
	// Leader is the Slot of the Raft leader.
	Leader  string `json:"leader"`
	Message string `json:"message,omitempty"`
}

// Pages are the reports of a coordinator to its own CVM. Safe for concurrent use.
type Pages struct {
	Metrics *Metrics
	Health  func() Health
	// Instance is nil before the coordinator has a cluster ID.
	Instance func(ctx context.Context) Instance
}

// Run serves /v1/instance, /healthz, /readyz and /metrics until ctx ends. /healthz is 200 while the
// process lives: a coordinator without quorum must not be restarted for it. /readyz is 200 while
// the records can be read.
func Run(ctx context.Context, listener net.Listener, p Pages) error {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, code int, value any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(value)
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, p.Health()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		health, code := p.Health(), http.StatusOK
		if !health.Records {
			code = http.StatusServiceUnavailable
		}
		answer(w, code, health)
	})
	mux.HandleFunc("GET /v1/instance", func(w http.ResponseWriter, req *http.Request) {
		if p.Instance == nil {
			answer(w, http.StatusServiceUnavailable, refusal{"NOT_ADMITTED", "this coordinator has no cluster ID yet; try again"})
			return
		}
		answer(w, http.StatusOK, p.Instance(req.Context()))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		answer(w, http.StatusNotFound, refusal{"ROUTE_UNKNOWN", req.Method + " " + req.URL.Path + " does not exist at a coordinator; see docs/reference/openapi-agent.yaml"})
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.Metrics, promhttp.HandlerOpts{}))
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// refusal has the form of an agent's.
type refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}
