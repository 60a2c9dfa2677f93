package redlock

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDecideToken(t *testing.T) {
	for name, test := range map[string]struct {
		fences    []int64
		granted   uint64
		token     int64
		at, below uint64
	}{
		"all the same":                        {[]int64{7, 7, 7}, 0b111, 7, 0b111, 0},
		"a quorum the same":                   {[]int64{7, 0, 7}, 0b101, 7, 0b101, 0},
		"one behind, a quorum at the largest": {[]int64{7, 5, 7}, 0b111, 7, 0b101, 0},
		"one ahead":                           {[]int64{7, 9, 7}, 0b111, 9, 0b010, 0b101},
		"all different":                       {[]int64{3, 2, 1}, 0b111, 3, 0b001, 0b110},
		"what did not grant has no say":       {[]int64{7, 9, 7}, 0b101, 7, 0b101, 0},
		"a majority of the granting nodes is not one of all": {[]int64{7, 7, 5, 0, 0}, 0b00111, 7, 0b00011, 0b00100},
		"half of an even number is not enough":               {[]int64{7, 7, 5, 5}, 0b1111, 7, 0b0011, 0b1100},
		"one node":                                           {[]int64{7}, 1, 7, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			token, at, below := decideToken(test.fences, test.granted)
			assert.Equal(t, test.token, token)
			assert.Equal(t, test.at, at)
			assert.Equal(t, test.below, below)
		})
	}
}
