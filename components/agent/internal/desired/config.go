package desired

import (
	"bytes"
	"encoding/json"
	"fmt"

	"cadre.dev/core/group"
)

// configLimit bounds the configuration that Desired carries.
const configLimit = 1 << 20

// Config reads what a coordinator wants. This is the one text that is not refused
// for fields that the reader does not know: coordinators are upgraded first, and an agent
// of yesterday goes on to serve by what it does know. Fields that may not be ignored are
// named in must_understand. ignored names the first unknown field; nil: there is none.
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
