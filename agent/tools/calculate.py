"""Tools for arithmetic, exact where possible, and for the time. An expression is read, no code is run."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from fractions import Fraction
from typing import Annotated, Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import Field

from agent.core.clock import Clock
from agent.core.errors import ToolError
from agent.core.function_tools import tool
from agent.core.tools import ToolContext
from agent.core.untrusted_text import worked_on

LONGEST = 500  # characters
SHORT = 100  # with so few, operations that are bounded each take some milliseconds at most; others go to a thread
DEEPEST = 50  # nested operations
MOST_BITS = 8_192  # of a whole number or a part of a fraction: about 2,400 digits
MOST_DIGITS = 2_400  # that a number is rounded to, on either side of its point

Number = int | float | Fraction

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e, "tau": math.tau}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "round": lambda value, digits=0: _rounded(value, digits),
    "min": min,
    "max": max,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": lambda value: _root(value),
    "exp": math.exp,
    "log": math.log,
    "log10": math.log10,
    "log2": math.log2,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "degrees": math.degrees,
    "radians": math.radians,
    "gcd": lambda *values: math.gcd(*map(_whole, values)),
    "factorial": lambda value: _factorial(value),
}


@tool(category="info", risk="safe", touches="own", effects=[], retryable=True, core=True)
async def calculate(
    *,
    expression: Annotated[
        str, Field(description='For example "(12.5 + 3) * 2**10 / 7".', min_length=1, max_length=LONGEST)
    ],
) -> str:
    """Calculates an arithmetic expression exactly, written as in Python, with its functions of arithmetic, such as
    sqrt, log10, sin, gcd, factorial, and pi and e."""
    return await worked_on(expression, calculated, long=SHORT)


def calculated(expression: str) -> str:
    """The value of an expression as text. Raises ToolError that says what cannot be calculated."""
    try:
        tree = ast.parse(expression.strip().replace("^", "**"), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ToolError(f"{expression!r} is not an arithmetic expression") from error
    try:
        return _written(_value(tree.body, 0))
    except ZeroDivisionError as error:
        raise ToolError("division by zero") from error
    except (ArithmeticError, ValueError, TypeError) as error:
        raise ToolError(f"cannot be calculated: {error}") from error


def _value(node: ast.expr, depth: int) -> Number:
    if depth > DEEPEST:
        raise ToolError(f"more than {DEEPEST} nested operations")
    match node:
        case ast.Constant(value=bool()):
            raise ToolError("only numbers can be calculated")
        case ast.Constant(value=int() as number):
            return _bounded(number)
        case ast.Constant(value=float() as number):
            # A decimal as it is written is exact: 0.1 + 0.2 is 0.3.
            if not math.isfinite(number):
                raise ToolError("a number is too large")
            return _bounded(Fraction(repr(number)))
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _bounded(_UNARY[type(op)](_value(operand, depth + 1)))
        case ast.BinOp(left=left, op=op, right=right):
            return _bounded(_combined(op, _value(left, depth + 1), _value(right, depth + 1)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](*(_value(argument, depth + 1) for argument in arguments)))
        case ast.Call(func=ast.Name(id=name)) | ast.Name(id=name):
            known = ", ".join([*_FUNCTIONS, *_CONSTANTS])
            raise ToolError(f"{name} is not known; known: {known}")
        case _:
            raise ToolError("only numbers, + - * / // % **, parentheses and the named functions are allowed")


def _combined(op: ast.operator, left: Number, right: Number) -> Number:
    match op:
        case ast.Div():
            if isinstance(left, float) or isinstance(right, float):
                return left / right
            return Fraction(left) / Fraction(right)
        case ast.Pow():
            return _power(left, right)
        case _ if type(op) in _BINARY:
            result: Number = _BINARY[type(op)](left, right)
            return result
        case _:
            raise ToolError("only + - * / // % ** are allowed")


def _power(left: Number, right: Number) -> Number:
    """Bounded before it is computed: 9**9**9 must not be tried."""
    if isinstance(right, Fraction) and right.denominator == 1:
        right = int(right)
    if isinstance(left, float) or not isinstance(right, int):
        result: Any = float(left) ** float(right)
        if isinstance(result, complex):
            raise ToolError("the result is not a real number")
        return float(result)
    exact = Fraction(left)
    size = max(abs(exact.numerator).bit_length(), exact.denominator.bit_length(), 1)
    if size > 1 and size * abs(right) > MOST_BITS:
        raise ToolError("the result would be too large")
    power: Fraction = exact**right
    return _bounded(power)


def _root(value: Number) -> Number:
    exact = Fraction(value) if not isinstance(value, float) else None
    if exact is not None and exact >= 0:
        top, bottom = math.isqrt(exact.numerator), math.isqrt(exact.denominator)
        if top * top == exact.numerator and bottom * bottom == exact.denominator:
            return Fraction(top, bottom)
    return math.sqrt(value)


def _rounded(value: Number, digits: Number) -> Number:
    """Bounded before it is computed: Python takes ten to the power of the digits."""
    places = _whole(digits)
    if abs(places) > MOST_DIGITS:
        raise ToolError(f"round takes {-MOST_DIGITS} to {MOST_DIGITS} digits")
    rounded: Any = round(value, places) if places else round(value)
    return cast(Number, rounded)


def _factorial(value: Number) -> int:
    number = _whole(value)
    if not 0 <= number <= 900:
        raise ToolError("factorial takes 0 to 900")
    return math.factorial(number)


def _whole(value: Number) -> int:
    if value != int(value):
        raise ToolError(f"{_written(value)} is not a whole number")
    return int(value)


def _bounded(value: Number) -> Number:
    if isinstance(value, Fraction):
        if max(abs(value.numerator).bit_length(), value.denominator.bit_length()) > MOST_BITS:
            raise ToolError("the result would be too large")
    elif isinstance(value, int) and abs(value).bit_length() > MOST_BITS:
        raise ToolError("the result would be too large")
    return value


def _written(value: Number) -> str:
    """Whole numbers in full, short decimals exactly, everything else with 15 digits and the mark that it is rounded."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.15g}"
    exact = Fraction(value)
    if exact.denominator == 1:
        return str(exact.numerator)
    rest = exact.denominator
    twos = (rest & -rest).bit_length() - 1
    rest >>= twos
    fives = 0
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    places = max(twos, fives)
    if rest == 1 and places <= 30:
        digits = f"{abs(exact.numerator) * 10**places // exact.denominator:0{places + 1}d}"
        return f"{'-' if exact < 0 else ''}{digits[:-places]}.{digits[-places:]}"
    return f"≈ {float(exact):.15g} (exactly {exact})" if len(str(exact)) <= 60 else f"≈ {float(exact):.15g}"


# Tool `current_time`: date and time in any time zone.


class TimeTools:
    """The tool that needs the gateway's clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @tool(category="info", risk="safe", touches="own", effects=[], retryable=True, core=True)
    async def current_time(
        self,
        context: ToolContext,
        *,
        zone: Annotated[
            str | None,
            Field(
                description='IANA name such as "Europe/Berlin". Left out: that of the person, else UTC.',
                max_length=64,
            ),
        ] = None,
    ) -> str:
        """Tells the current date and time, with weekday and offset from UTC."""
        name = zone or context.asker.zone or "UTC"
        now = self._clock.now().astimezone(_zone(name))
        shown = name if now.tzname() == name else f"{name}, {now.tzname()}"
        return f"{now:%A}, {now.isoformat(timespec='seconds')} ({shown})"


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = get_close_matches(name, available_timezones(), n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else '; use an IANA name such as "Europe/Berlin"'
        raise ToolError(f"there is no time zone {name!r}{hint}") from error
