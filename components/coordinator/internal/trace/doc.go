// Package trace turns the records of finished Operations and rollouts into OpenTelemetry spans and
// sends them to a collector by OTLP.
//
//	rollout postgres #4                        rollouts/<id>
//	├── UPDATE postgres-1                      operations/<id>
//	│   ├── drain  ├── platform call  ├── boot  ├── join  └── settle
//	└── UPDATE postgres-0
//
// A span comes from a durable record and has an ID that follows from the record, so every
// coordinator would send the same span, and a crash of the leader changes no span. The leader sends
// a span when its record ends. A record that ends between two leaders may be sent by neither.
package trace
