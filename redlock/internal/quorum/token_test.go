package quorum

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDecideToken(t *testing.T) {
	const second = int64(1_000_000)
	const far = 3600 * second
	for name, test := range map[string]struct {
		fences    []int64
		granted   NodeSet
		token     int64
		at, below NodeSet
	}{
		"all the same":                                       {[]int64{7, 7, 7}, 0b111, 7, 0b111, 0},
		"a quorum the same":                                  {[]int64{7, 0, 7}, 0b101, 7, 0b101, 0},
		"one behind, a quorum at the largest":                {[]int64{7, 5, 7}, 0b111, 7, 0b101, 0},
		"one ahead, a quorum at another":                     {[]int64{9, 7, 7}, 0b111, 7, 0b110, 0},
		"one ahead, and no quorum without it":                {[]int64{7, 9, 0}, 0b011, 9, 0b010, 0b001},
		"all different":                                      {[]int64{3, 2, 1}, 0b111, 3, 0b001, 0b110},
		"what did not grant has no say":                      {[]int64{7, 9, 7}, 0b101, 7, 0b101, 0},
		"a majority of the granting nodes is not one of all": {[]int64{7, 7, 5, 0, 0}, 0b00111, 7, 0b00011, 0b00100},
		"half of an even number is not enough":               {[]int64{7, 7, 5, 5}, 0b1111, 7, 0b0011, 0b1100},
		"one node":                                           {[]int64{7}, 1, 7, 1, 0},
		"one far ahead, and a quorum behind it":              {[]int64{far, 5, 7}, 0b111, 7, 0b100, 0b010},
		"one far ahead, and no quorum without it":            {[]int64{far, 7, 7, 0, 0}, 0b00111, 0, 0, 0},
		"one far behind":                                     {[]int64{7, far, far + 1}, 0b111, far + 1, 0b100, 0b011},
		"one far behind, and no quorum without it":           {[]int64{7, far, 0}, 0b011, 0, 0, 0},
		"a quorum far ahead":                                 {[]int64{far, far, 7}, 0b111, far, 0b011, 0},
		"as far as a node surely follows":                    {[]int64{1 + 10*second, 1, 0}, 0b011, 1 + 10*second, 0b001, 0b010},
		"further":                                            {[]int64{2 + 10*second, 1, 0}, 0b011, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			token, at, below := DecideToken(test.fences, test.granted, RaiseReach)
			assert.Equal(t, test.token, token)
			assert.Equal(t, test.at, at)
			assert.Equal(t, test.below, below)
		})
	}
}
