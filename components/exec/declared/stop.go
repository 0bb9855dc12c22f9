package declared

import (
	"time"

	"go.yaml.in/yaml/v3"
)

// Stops returns the time to end of each service of a compose text, by name, if its
// stop_grace_period is a plain duration.
func Stops(compose string) (stops map[string]time.Duration) {
	stops = map[string]time.Duration{}
	// As in Read: a text that crashes the parser counts as empty.
	defer func() { _ = recover() }()
	root, err := parse(compose)
	if err != nil {
		return stops
	}
	each(get(root, "services"), func(key, service *yaml.Node) {
		if d, err := time.ParseDuration(text(service, "stop_grace_period")); err == nil && d > 0 {
			stops[key.Value] = d
		}
	})
	return stops
}
