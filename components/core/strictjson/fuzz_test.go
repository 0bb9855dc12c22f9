package strictjson

import (
	"encoding/json"
	"testing"

	"cadre.dev/core/strictjson/strictjsontest"
)

// FuzzINP03_Unmarshal: each document is rejected, or means the same after it is written and read
// again.
func FuzzINP03_Unmarshal(f *testing.F) {
	text, err := json.Marshal(strictjsontest.Filled[outer]())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for c := range strictjsontest.Extreme(f, text) {
		f.Add(c.Text)
	}
	for _, nested := range strictjsontest.Nested() {
		f.Add([]byte(nested))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<20 {
			return
		}
		var closed, open outer
		errClosed, errOpen := Unmarshal(text, &closed), UnmarshalOpen(text, &open)
		if errClosed == nil && errOpen != nil {
			t.Fatalf("the stricter reading takes what the other refuses: %v", errOpen)
		}
		if errOpen != nil {
			return
		}
		again, err := json.Marshal(open)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if err := Unmarshal(again, &closed); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
	})
}
