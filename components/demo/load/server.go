package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Verdict compares the journal with what the system holds.
type Verdict struct {
	Acknowledged int `json:"acknowledged"`
	Present      int `json:"present"`
	Missing      int `json:"missing"`
}

// Handler serves the figures of a run:
//
//	GET  /summary?from=RFC3339&to=RFC3339   Summary of the span; both may be left out
//	POST /verify                            Verdict from a read on the leader
//	POST /stop                              stops the writers and waits for them
func Handler(j *Journal, target Target, stop func()) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /summary", func(w http.ResponseWriter, r *http.Request) {
		from, err := queryTime(r, "from")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		to, err := queryTime(r, "to")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, Summarize(j.Between(from, to), from, to))
	})
	mux.HandleFunc("POST /verify", func(w http.ResponseWriter, r *http.Request) {
		verdict, err := verify(r.Context(), j, target)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		answer(w, verdict)
	})
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		stop()
		answer(w, struct{}{})
	})
	return mux
}

func verify(ctx context.Context, j *Journal, target Target) (Verdict, error) {
	// The journal first: what is acknowledged while the read runs must not count as missing.
	acknowledged := j.AcknowledgedIDs()
	present, err := target.IDs(ctx)
	if err != nil {
		return Verdict{}, err
	}
	return Verdict{
		Acknowledged: len(acknowledged),
		Present:      len(present),
		Missing:      Missing(acknowledged, present),
	}, nil
}

func queryTime(r *http.Request, name string) (time.Time, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %q is not an RFC 3339 time", name, text)
	}
	return t, nil
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
