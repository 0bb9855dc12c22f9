package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Parse reads one JSON object, with numbers as they are written.
func Parse(text []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	out := map[string]any{}
	if err := dec.Decode(&out); err != nil {
		return nil, fmt.Errorf("read a block: %w", err)
	}
	return out, nil
}
