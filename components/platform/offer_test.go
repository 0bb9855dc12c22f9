package platform

import (
	"errors"
	"strings"
	"testing"
)

func TestOfferCheck(t *testing.T) {
	offer := Offer{OSImages: []string{"dstack-0.5.9", "dstack-0.5.7-0a1b2c3d"}, InstanceTypes: []string{"tdx.small", "tdx.medium"}}
	for _, c := range []struct {
		name  string
		offer Offer
		t     Template
		want  []string // parts of the error; nil: fits
	}{
		{"all there", offer, Template{OSImage: "dstack-0.5.9", InstanceType: "tdx.small"}, nil},
		{"left to the platform", offer, Template{}, nil},
		{"nothing told", Offer{}, Template{OSImage: "x", InstanceType: "y"}, nil},
		{"the offer's suffix", offer, Template{OSImage: "dstack-0.5.7"}, nil},
		{"the spec's suffix", offer, Template{OSImage: "dstack-0.5.9-ffff0000"}, nil},
		{"a suffix that is no hash", offer, Template{OSImage: "dstack-0.5.9-dev"}, []string{"template.os_image", `"dstack-0.5.9-dev"`, "dstack-0.5.7-0a1b2c3d, dstack-0.5.9"}},
		{"a type of another platform", offer, Template{InstanceType: "c5.large"}, []string{"template.instance_type", `"c5.large"`, "tdx.medium, tdx.small"}},
		{"both", offer, Template{OSImage: "a", InstanceType: "b"}, []string{"template.os_image", "template.instance_type"}},
		{"an empty offer", Offer{OSImages: []string{}}, Template{OSImage: "a"}, []string{"none"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.offer.Check(c.t)
			if (err == nil) != (c.want == nil) {
				t.Fatalf("Check = %v, want parts %q", err, c.want)
			}
			if err != nil && (!errors.Is(err, ErrNotOffered) || !errors.Is(err, ErrRefused)) {
				t.Errorf("%v is not ErrNotOffered and ErrRefused", err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not name %s", err, part)
				}
			}
		})
	}
}
