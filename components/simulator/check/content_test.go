package check

import (
	"cadre.dev/coordinator/simulated/cloud"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/simulator/trace"
)

func contentCases() cases {
	release := func(name string) func(*group.Spec) {
		return func(s *group.Spec) {
			s.Template = group.Template{Compose: "RELEASE: " + name, InstanceType: "small", OSImage: "image"}
			s.Instances = []group.InstanceSettings{{Ordinal: 0, InstanceType: "own-0"}, {Ordinal: 1, InstanceType: "own-1"}}
		}
	}
	one, two := specOf("none", 1, release("one")).Revision(), specOf("none", 1, release("two")).Revision()
	pg := func() *run {
		return start().spec("none", 1, release("one")).spec("none", 1, release("two")).binds("pg-0").members("pg-0")
	}
	leads := func(to, text string) *run {
		return pg().op("a", "pg-0", operation.Acting, func(op *operation.Operation) { op.To = to }).
			called(cloud.Update, "pg-0").then(func(e *trace.Event) { e.Call.Content = text })
	}
	rests := func(at, text, size, image string) *run {
		return pg().admitted("pg-0", "boot-1-of-pg-0", at, 1).settled("", "pg-0").then(func(e *trace.Event) {
			e.CVMs[0].Content, e.CVMs[0].InstanceType, e.CVMs[0].OSImage = text, size, image
		})
	}
	return cases{
		id: "content",
		bad: []named{
			{"a step to the new one with the old one's text", leads(two, "RELEASE: one")},
			{"a step back with the new one's text", leads(one, "RELEASE: two")},
			{"a document that nobody provisioned", leads(two, "")},
			{"it rests with the old one's text", rests(two, "RELEASE: one", "small", "image")},
			{"it rests in another size", rests(two, "RELEASE: two", "large", "image")},
			{"it rests in the own size of another slot", rests(two, "RELEASE: two", "own-1", "image")},
			{"it rests with another image", rests(two, "RELEASE: two", "small", "another")},
		},
		good: []named{
			{"a step with the text", leads(two, "RELEASE: two")},
			{"a step back with the text", leads(one, "RELEASE: one")},
			{"a Revision that no spec of the run had", leads("old", "RELEASE: none")},
			{"it rests as it is to", rests(two, "RELEASE: two", "small", "image")},
			{"it rests in its own size", rests(two, "RELEASE: two", "own-0", "image")},
			{"it is kept back, with the text of what it runs", rests(one, "RELEASE: one", "small", "image")},
		},
	}
}
