package load

import (
	"net/http"
	"time"
)

// checkLimit bounds the search for each register.
const checkLimit = 30 * time.Second

// RegisterHandler serves the figures of a run:
//
//	GET  /summary?from=RFC3339&to=RFC3339   RegisterSummary of the span; both may be left out
//	POST /verify                            Verdict from a read of all written IDs
//	POST /check                             Linearizability of the history so far; stop first
//	POST /stop                              stops the clients and waits for them
func RegisterHandler(r *Registers, stop func()) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /summary", func(w http.ResponseWriter, req *http.Request) {
		from, err := queryTime(req, "from")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		to, err := queryTime(req, "to")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, r.history.Summarize(r.began, from, to))
	})
	mux.HandleFunc("POST /verify", func(w http.ResponseWriter, req *http.Request) {
		// The history first: a write that is acknowledged during the read must not count as
		// missing.
		acknowledged := r.history.AcknowledgedIDs()
		present, err := r.store.IDs(req.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		answer(w, Verdict{
			Acknowledged: len(acknowledged), Present: len(present), Missing: Missing(acknowledged, present),
		})
	})
	mux.HandleFunc("POST /check", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, Check(r.history.Ops(), checkLimit))
	})
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		stop()
		answer(w, struct{}{})
	})
	return mux
}
