package lifecycle

import (
	"fmt"

	"cadre.dev/agent/internal/durable"
)

const (
	// resultsKept bounds operations.json; a leader asks about far fewer.
	resultsKept      = 64
	resultsName      = "operations.json"
	resultsFileLimit = 1 << 20
	messageLimit     = 1024
)

// results are the finished ones, oldest first. Not safe for concurrent use.
type results struct {
	disk *durable.Disk
	list []Result
}

type resultsFile struct {
	Results []Result `json:"results"`
}

// openResults reads operations.json; a missing file is an empty list.
func openResults(disk *durable.Disk) (*results, error) {
	r := &results{disk: disk}
	var file resultsFile
	if _, err := disk.Read(resultsName, resultsFileLimit, &file); err != nil {
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

// put replaces or appends a result and writes the file. After a failed write the result stays in
// memory: the agent reports it from there at once, and does not repeat the work while this process
// lives. The order starts again only if the agent also ends before the leader has received the
// result, just as after a crash in the middle of the order.
func (r *results) put(one Result) error {
	kept := make([]Result, 0, len(r.list)+1)
	for _, old := range r.list {
		if old.Key != one.Key {
			kept = append(kept, old)
		}
	}
	kept = append(kept, one)
	r.list = kept[max(0, len(kept)-resultsKept):]
	return r.disk.Put(resultsName, resultsFile{Results: r.list})
}
