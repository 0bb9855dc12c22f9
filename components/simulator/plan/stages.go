package plan

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Stages are the bakes of a group's rollouts.
type Stages struct {
	// Stage is the bake of a first stage of one Slot; 0: the group has no stage.
	Stage time.Duration
	// Bake is the last bake; 0: none.
	Bake time.Duration
	// Promote is an operator's delay before the promotion of the stage; 0: it needs none.
	Promote time.Duration
}

// drawStages gives every fourth group a stage, and every fourth a last bake.
func drawStages(r *rand.Rand, p *Plan) {
	for i := range p.Groups {
		s := &p.Groups[i].Stages
		for _, bake := range []*time.Duration{&s.Stage, &s.Bake} {
			if most := 5*time.Second + upTo(r, 55*time.Second); r.IntN(4) == 0 {
				*bake = most.Round(time.Second)
			}
		}
	}
}

func (s *Stages) named() []taking {
	return []taking{{"stage", &s.Stage}, {"bake", &s.Bake}, {"promote", &s.Promote}}
}

// text is the part of a group's line.
func (s Stages) text() string {
	var b strings.Builder
	for _, one := range s.named() {
		if *one.most > 0 {
			fmt.Fprintf(&b, " %s %s", one.word, *one.most)
		}
	}
	return b.String()
}
