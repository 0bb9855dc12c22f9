package desired

import (
	"bytes"
	"encoding/json"
	"fmt"

	"cadre.dev/core/group"
)

// configLimit bounds the configuration that Desired carries.
const configLimit = 1 << 20

// Config decodes a coordinator's configuration. This is the one text in which unknown fields are
// allowed: coordinators are upgraded first, and an older agent continues to serve with the fields
// that it knows. must_understand names the fields that must not be ignored. ignored is the first
// unknown field; nil if there is none.
func Config(data []byte) (out *group.AgentConfig, ignored, err error) {
	if len(data) > configLimit {
		return nil, nil, fmt.Errorf("configuration has %d bytes, at most %d are taken", len(data), configLimit)
	}
	out = &group.AgentConfig{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, nil, fmt.Errorf("configuration: %w", err)
	}
	if err := out.Understood(); err != nil {
		return nil, nil, fmt.Errorf("configuration: %w", err)
	}
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	return out, strict.Decode(&group.AgentConfig{}), nil
}
