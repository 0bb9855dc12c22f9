package appcompose

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"cadre.dev/core/strictjson"
)

// Measured is the source of the additional boot events of a guest image 0.6.
type Measured struct {
	// EventLogVersion is how the digests of events are made: 1, or 2 where it is asked for.
	EventLogVersion int
	// InitScripts are the SHA-256 of the init scripts in their order.
	InitScripts [][32]byte
	// GPUPolicy is the SHA-256 of the canonical JSON of requirements.gpu_policy, {} where
	// there is none.
	GPUPolicy [32]byte
}

// ReadMeasured reads raw as dstack does. The error is of a document that the closed list
// refuses as well.
func ReadMeasured(raw []byte) (Measured, error) {
	m := Measured{EventLogVersion: 1}
	var doc map[string]json.RawMessage
	if err := strictjson.Unmarshal(raw, &doc); err != nil {
		return m, err
	}
	if v, ok := doc["event_log_version"]; ok {
		if err := json.Unmarshal(v, &m.EventLogVersion); err != nil {
			return m, fmt.Errorf("event_log_version: %w", err)
		}
	}
	scripts, err := initScripts(doc["init_script"])
	if err != nil {
		return m, err
	}
	for _, script := range scripts {
		m.InitScripts = append(m.InitScripts, sha256.Sum256([]byte(script)))
	}
	policy := map[string]any{}
	if v, ok := doc["requirements"]; ok {
		var requirements map[string]json.RawMessage
		if err := json.Unmarshal(v, &requirements); err != nil {
			return m, fmt.Errorf("requirements: %w", err)
		}
		if p, ok := requirements["gpu_policy"]; ok {
			dec := json.NewDecoder(bytes.NewReader(p))
			dec.UseNumber()
			policy = nil
			if err := dec.Decode(&policy); err != nil || policy == nil {
				return m, errors.New("requirements.gpu_policy is not an object")
			}
		}
	}
	canonical, err := Encode(policy)
	if err != nil {
		return m, fmt.Errorf("requirements.gpu_policy: %w", err)
	}
	m.GPUPolicy = sha256.Sum256(canonical)
	return m, nil
}

// initScripts is a text or a list of texts. An empty text is a script, too.
func initScripts(value json.RawMessage) ([]string, error) {
	if len(value) == 0 || string(bytes.TrimSpace(value)) == "null" {
		return nil, nil
	}
	var one string
	if json.Unmarshal(value, &one) == nil {
		return []string{one}, nil
	}
	var many []*string
	if err := json.Unmarshal(value, &many); err != nil {
		return nil, errors.New("init_script is neither a text nor a list of texts")
	}
	out := make([]string, 0, len(many))
	for _, script := range many {
		if script == nil {
			return nil, errors.New("init_script has an entry that is no text")
		}
		out = append(out, *script)
	}
	return out, nil
}
