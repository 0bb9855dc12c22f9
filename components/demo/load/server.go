package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Verdict compares the journal with the content of the system.
type Verdict struct {
	Acknowledged int `json:"acknowledged"`
	Present      int `json:"present"`
	Missing      int `json:"missing"`
	// MissingIDs are the first of them, as spans.
	MissingIDs []string `json:"missing_ids,omitempty"`
	// Earlier counts the writes that were acknowledged before the last start of the load: before a
	// power cut, for example. Starts counts the load's starts.
	Earlier Part `json:"earlier,omitzero"`
	Starts  int  `json:"starts,omitempty"`
	// Duplicates are writes that the system keeps more than once, where it can.
	Duplicates int `json:"duplicates,omitempty"`
	// Unchecked writes were acknowledged too, so long ago that their ids are forgotten.
	Unchecked int `json:"unchecked,omitempty"`
}

// Part of the acknowledged writes.
type Part struct {
	Acknowledged int `json:"acknowledged"`
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
		from, to, err := Span(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := j.Err(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer(w, j.Summary(from, to))
	})
	mux.HandleFunc("POST /verify", func(w http.ResponseWriter, r *http.Request) {
		verdict, err := Verify(r.Context(), j, target)
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

// Verify compares the acknowledged writes of the journal with the present content of the system.
func Verify(ctx context.Context, j *Journal, target Target) (Verdict, error) {
	// The journal first: a write that is acknowledged during the read must not count as missing.
	acks := j.Acknowledgements()
	present, err := target.IDs(ctx)
	if err != nil {
		return Verdict{}, err
	}
	missing, earlier := acks.All.Without(present), acks.Earlier.Without(present)
	duplicates := 0
	if counts, can := target.(interface{ Duplicates() int }); can {
		duplicates = counts.Duplicates()
	}
	return Verdict{
		Duplicates:   duplicates,
		Acknowledged: acks.All.Len(), Present: present.Len(),
		Missing: missing.Len(), MissingIDs: missing.First(20),
		Earlier: Part{Acknowledged: acks.Earlier.Len(), Missing: earlier.Len()},
		Starts:  acks.Starts, Unchecked: acks.Unchecked,
	}, nil
}

// Span is the span of time that a request for a summary names; an omitted end is open.
func Span(r *http.Request) (from, to time.Time, err error) {
	from, badFrom := queryTime(r, "from")
	to, badTo := queryTime(r, "to")
	return from, to, errors.Join(badFrom, badTo)
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
