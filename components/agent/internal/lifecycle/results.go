package lifecycle

import (
	"fmt"
	"path/filepath"

	"cadre.dev/agent/internal/durable"
)

const (
	// resultsKept bounds operations.json; a leader asks about far fewer.
	resultsKept      = 64
	resultsFileLimit = 1 << 20
	messageLimit     = 1024
)

// results are the finished ones, oldest first. Not safe for concurrent use.
type results struct {
	path string
	list []Result
}

type resultsFile struct {
	Results []Result `json:"results"`
}

// openResults reads dir/operations.json; a missing file is an empty list.
func openResults(dir string) (*results, error) {
	r := &results{path: filepath.Join(dir, "operations.json")}
	var file resultsFile
	if _, err := durable.ReadJSON(r.path, resultsFileLimit, &file); err != nil {
		return nil, fmt.Errorf("finished operations: %w", err)
	}
	r.list = file.Results
	return r, nil
}

func (r *results) find(key Key) (Result, bool) {
	for _, one := range r.list {
		if one.Key == key {
			return one, true
		}
	}
	return Result{}, false
}

// put replaces or appends one and writes the file. The result is kept in memory
// even when the disk refuses.
func (r *results) put(one Result) error {
	kept := make([]Result, 0, len(r.list)+1)
	for _, old := range r.list {
		if old.Key != one.Key {
			kept = append(kept, old)
		}
	}
	kept = append(kept, one)
	r.list = kept[max(0, len(kept)-resultsKept):]
	return durable.WriteJSON(r.path, resultsFile{Results: r.list})
}
