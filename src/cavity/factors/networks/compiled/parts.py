"""How Numba compiles what only loops call: parts stay as they are written until a loop has taken them in.

Numba optimises every function and makes machine code of it, and does both again in all that calls it. A part is never
run by itself: it is checked for types and written down, and what becomes of it is decided where the loop is whole.
"""

from typing import Any

from numba._dynfunc import make_function
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

library: Any = JITCodeLibrary  # whose types are not known
compiler: Any = CompilerBase
lowering: Any = NativeLowering
register: Any = register_pass


class Unfinished(library):
    """Code that is only linked into that of others."""

    def _optimize_final_module(self) -> None:
        """Left to the loop."""

    def _finalize_final_module(self) -> None:
        self._finalized = True


@register(mutates_CFG=True, analysis_only=False)
class PartLowering(lowering):
    """Numba's own, without machine code: what Python would call is only a name under which loops find the part."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = Unfinished(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        name, result = state.func_id.func_name, state.cr
        entry = make_function(result.fndesc.lookup_module(), name, "", 0, result.env, (state.library,))
        state.targetctx.insert_user_function(entry, result.fndesc, [state.library])
        state.cr = result._replace(cfunc=entry)
        return True


class PartCompiler(compiler):
    """The stages of Numba's compiler, with another last."""

    def define_pipelines(self) -> list[Any]:
        stages = DefaultPassBuilder.define_nopython_pipeline(self.state)
        stages.passes = [(PartLowering if stage is NativeLowering else stage, why) for stage, why in stages.passes]
        stages.finalize()
        return [stages]
