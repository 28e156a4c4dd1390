package golive

import (
	"debug/elf"
	"encoding/binary"
	"slices"

	"golang.org/x/arch/x86/x86asm"
)

// uses is what a function does with variables at addresses its code gives.
type uses struct {
	load   uint64   // the first that 4 bytes are loaded from
	stores []uint64 // those that 4 bytes are stored to atomically
	add    uint64   // the first that is added to atomically, 4 bytes
	all    []uint64 // every one, in order
}

// maxUses bounds the variables of one function; runtime.procresize has some thirty.
const maxUses = 512

func (u *uses) note(addr uint64) {
	if len(u.all) < maxUses && !slices.Contains(u.all, addr) {
		u.all = append(u.all, addr)
	}
}

func (u *uses) store(addr uint64) {
	if len(u.stores) < maxUses {
		u.stores = append(u.stores, addr)
	}
}

// decode reads a function's code; pc is its address. It knows amd64 and arm64.
func decode(machine elf.Machine, code []byte, pc uint64) (u uses, ok bool) {
	switch machine {
	case elf.EM_X86_64:
		return decodeAMD64(code, pc), true
	case elf.EM_AARCH64:
		return decodeARM64(code, pc), true
	}
	return u, false
}

// decodeAMD64 follows operands relative to RIP, and registers that got such an address by LEA: the compiler writes both
//
//	MOVL gomaxprocs(SB), DX
//	LEAQ gomaxprocs(SB), CX; … XCHGL AX, 0(CX)
func decodeAMD64(code []byte, pc uint64) uses {
	var u uses
	known := map[x86asm.Reg]uint64{}
	for len(code) > 0 {
		inst, err := x86asm.Decode(code, 64)
		if err != nil || inst.Len <= 0 || inst.Len > len(code) {
			code, pc = code[1:], pc+1
			continue
		}
		code, pc = code[inst.Len:], pc+uint64(inst.Len)
		var addr uint64
		var has bool
		for _, arg := range inst.Args {
			mem, isMem := arg.(x86asm.Mem)
			if !isMem || mem.Index != 0 {
				continue
			}
			if mem.Base == x86asm.RIP {
				addr, has = pc+uint64(mem.Disp), true
				u.note(addr)
			} else if base, is := known[mem.Base]; is {
				addr, has = base+uint64(mem.Disp), true
			}
		}
		target, toReg := inst.Args[0].(x86asm.Reg)
		switch {
		case inst.Op == x86asm.LEA && toReg && has:
			known[target] = addr
			continue
		case inst.Op == x86asm.XCHG && has && inst.MemBytes == 4:
			u.store(addr)
		case inst.Op == x86asm.XADD && has && inst.MemBytes == 4 && u.add == 0:
			u.add = addr
		case inst.Op == x86asm.MOV && toReg && has && inst.MemBytes == 4 && u.load == 0:
			u.load = addr
		}
		if toReg {
			delete(known, target)
		}
	}
	return u
}

// decodeARM64 follows ADRP, which makes the address of a page, and what adds an offset to it. It reads the encodings
// itself, nine of them, all as in the Arm manual's "Loads and stores": arm64asm keeps the offset of an operand to itself.
func decodeARM64(code []byte, pc uint64) uses {
	var u uses
	var value [32]uint64 // of registers, 0 where it isn't known
	for ; len(code) >= 4; code, pc = code[4:], pc+4 {
		w := binary.LittleEndian.Uint32(code) // of the code also on big-endian systems
		rd, base := w&31, value[w>>5&31]
		imm := uint64(w >> 10 & 0xfff)
		at := func(addr uint64) uint64 {
			if base == 0 {
				return 0
			}
			u.note(addr)
			return addr
		}
		switch {
		case w&0x9f000000 == 0x90000000: // ADRP
			pages := int64(int32(w<<8)>>13)<<2 | int64(w>>29&3)
			value[rd] = pc&^0xfff + uint64(pages)<<12
		case w&0xff800000 == 0x91000000: // ADD Xd, Xn, #imm
			value[rd] = at(base + imm<<(12*(w>>22&1)))
		case w&0xffc00000 == 0xb9400000, w&0xffc00000 == 0xb9800000: // LDR Wt; LDRSW
			if addr := at(base + imm*4); u.load == 0 {
				u.load = addr
			}
			value[rd] = 0
		case w&0xffc00000 == 0xf9400000: // LDR Xt
			at(base + imm*8)
			value[rd] = 0
		case w&0xffc00000 == 0xb9000000: // STR Wt
			at(base + imm*4)
		case w&0xffc00000 == 0xf9000000: // STR Xt
			at(base + imm*8)
		case w&0xfffffc00 == 0x889ffc00: // STLR Wt, [Xn]
			if addr := at(base); addr != 0 {
				u.store(addr)
			}
		case w&0xff20fc00 == 0xb8200000: // LDADD Ws, Wt, [Xn]
			if addr := at(base); u.add == 0 {
				u.add = addr
			}
			value[rd] = 0
		default:
			value[rd] = 0
		}
	}
	return u
}
