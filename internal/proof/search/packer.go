package search

// Packer writes numbers into a code, one behind the other, or reads them.
type Packer[C ~[3]uint64 | ~[4]uint64] struct {
	Code C
	used uint
}

// Put writes a number of this many bits, at most 64.
func (p *Packer[C]) Put(size uint, v uint64) {
	word, at := p.used/64, p.used%64
	p.used += size
	p.Code[word] |= v << at
	if at+size > 64 {
		p.Code[word+1] |= v >> (64 - at)
	}
}

// Take reads a number of this many bits, less than 64.
func (p *Packer[C]) Take(size uint) uint64 {
	word, at := p.used/64, p.used%64
	p.used += size
	v := p.Code[word] >> at
	if at+size > 64 {
		v |= p.Code[word+1] << (64 - at)
	}
	return v & (1<<size - 1)
}
